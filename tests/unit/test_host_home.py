"""Where a home keeps its store, whatever is in its name."""

import pytest
from a_run import begin

from vtax.errors import StoreError
from vtax.host.home import Home
from vtax.store.database import make_engine, store_name
from vtax.store.store import Store


@pytest.mark.parametrize("name", ["a?b", "a%41b", "a b", "a#b", "a:b@c", "%", "é", "file:x"])
def test_a_home_of_any_name_has_its_store_inside(tmp_path, name, use_home):
    use_home(tmp_path / name)
    home = Home.from_environment().ensure()
    with Store.open(home.store_url) as store:
        begin(store, "tour-1")
    assert [run.name for run in Store.existing(home.store_url).runs()] == ["tour-1"]
    assert (tmp_path / name / "store.sqlite").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]


SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql:/user:{SECRET}@host/db",
        f"user:{SECRET}@host/db",
        f"{SECRET}",
        f"postgresql://user:{SECRET}@host:port/db",
        f"postgresql://user:p@{SECRET}:x@host/db",
        f"mysql://user:{SECRET}@host/db",
        f"{SECRET}://user@host/db",
        f"sqlite://user:{SECRET}@host/x",
        f"sqlite:///x?key={SECRET}",
        f"sqlite:///x%00{SECRET}",
        f"sqlite+{SECRET}:///x",
        f"postgres://user:{SECRET}@host/db",
        f"postgresql://user:p@{SECRET}@host:1/db",
        f"postgresql://user:@{SECRET}@host/db",
        f"postgresql://user:p@x/{SECRET}@host/db",
        f"postgresql://user:p@{SECRET}?x@host/db",
        f"postgresql://host:5432/db?password=p@{SECRET}",
    ],
)
def test_a_store_that_cannot_be_used_is_reported_without_its_password(url):
    with pytest.raises(StoreError) as caught:
        make_engine(url)
    assert SECRET not in str(caught.value)
    assert "VTAX_STORE" in str(caught.value)
    assert "postgresql://user@host/database" in caught.value.hint


def test_an_at_sign_in_a_password_is_written_as_a_percent_code(golden):
    with pytest.raises(StoreError) as caught:
        make_engine("postgresql://user:p@ss@host/db")
    golden(str(caught.value))
    assert "%40" in caught.value.hint
    url = make_engine("postgresql://us%40er:p%40ss@host/db").url
    assert (url.username, url.password, url.host) == ("us@er", "p@ss", "host")


def test_no_message_shows_password_or_parameters():
    url = make_engine(
        f"postgresql://user:{SECRET}@host/db?password={SECRET}&sslpassword={SECRET}"
    ).url
    assert store_name(url) == "postgresql+psycopg://user:***@host/db"
