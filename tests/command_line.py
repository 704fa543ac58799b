"""vtax commands as a person types them."""

from click.testing import CliRunner

from vtax.cli.main import group


def output_of(*arguments: str) -> str:
    """What a command that goes well prints."""
    result = CliRunner().invoke(group, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output
