"""Names of drivers by what their guests are: a test goes through all of a kind, so that a new driver is in it."""

from vtax.platforms import registry
from vtax.platforms.containers import ContainerOptions
from vtax.platforms.sandbox import ContainerDriver

RUNTIMES = [
    name for name, driver in registry.drivers().items() if isinstance(driver, ContainerDriver)
]
"""Drivers of containers, each with a platform of its own name."""
SHARE_A_KERNEL = ["native", "sandbox", *RUNTIMES]
"""Drivers whose guests are processes of the host's kernel."""
CONFINABLE = [
    name for name in RUNTIMES if issubclass(registry.drivers()[name].Options, ContainerOptions)
]
"""Those with the option `confinement`."""
OVER_OUR_OVERLAY = [
    name for name in SHARE_A_KERNEL if registry.drivers()[name].writes_below_directory
]
"""Those whose files vtax mounts itself."""
