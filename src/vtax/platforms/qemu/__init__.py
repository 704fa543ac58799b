"""QEMU: a virtual machine of KVM or of an emulated CPU."""
