"""Containers that an OCI runtime makes for Docker, Podman and containerd, or by itself."""
