"""What a peer can do wrong on the wire. Nothing else is raised by a reader of this package."""

from penstock.model.error import PenstockError


class MalformedMessage(PenstockError):
    """Bytes that are not the message they should be. The connection they came from is of no more
    use.
    """


class FrameTooLarge(MalformedMessage):
    """A frame whose size prefix is more than this side accepts; nothing was set aside for it."""

    def __init__(self, *, size: int, size_max: int) -> None:
        super().__init__(f"a frame of {size} bytes is larger than the {size_max} accepted")
        self.size = size
        self.size_max = size_max
