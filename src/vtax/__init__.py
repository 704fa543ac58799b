"""vtax measures what a virtualization layer costs, with answers that hold."""

__version__ = "0.1.0"
