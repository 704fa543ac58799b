"""vtax measures what a virtualization layer costs."""

__version__ = "0.1.0"
