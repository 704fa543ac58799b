"""The agent inside a guest, the byte stream to it, and the calls over that stream."""
