"""Small hypervisors that need nothing but KVM."""
