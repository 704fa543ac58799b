"""One study on many hosts: the pack that takes vtax and a study to a host, and what runs there without a terminal."""
