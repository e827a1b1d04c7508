"""From the bytes of a source file to its text, by the rules that Python itself follows (PEP 263)."""

from __future__ import annotations

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_NAME = 80


class UndecodableError(Exception):
    """The bytes are not text. Says where, counted from 1, and why."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def decode(data: bytes) -> str:
    """The text with `\\n` as its only line end, so that `text.split("\\n")` has the lines that the parser counts."""
    if _is_utf16(data):
        raise UndecodableError("the file is saved as UTF-16, which Python does not read; save it as UTF-8")
    if (nul := data.find(b"\0")) >= 0:
        raise UndecodableError("the file holds a NUL byte, so it is not Python source", *_position(data, nul))
    encoding = encoding_of(data)
    # Bytes take a quarter of the memory that text may take.
    if encoding.startswith("utf-8") and b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # The codec for files with a byte order mark sees the file without it.
        data = error.object
        byte = f"0x{data[error.start]:02x}"
        message = f"byte {byte} is not valid {encoding}; save the file as UTF-8 or declare its real encoding"
        raise UndecodableError(message, *_position(data, error.start)) from None
    except (LookupError, UnicodeError):
        message = f"the declared encoding `{encoding[:_LONGEST_NAME]}` is not one that text can be read with"
        raise UndecodableError(message) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _is_utf16(data: bytes) -> bool:
    """By its mark; without one, each letter of ASCII has a NUL beside it, on one side or the other."""
    return data.startswith(_UTF16_BOMS) or (b"\0" in data[:2] and data.count(b"\0") * 3 > len(data) > 2)


def plain_bytes(data: bytes) -> bytes:
    """The bytes as one could search them for words: those of UTF-16 have a NUL beside each letter of ASCII."""
    return data.replace(b"\0", b"") if _is_utf16(data) else data


def encoding_of(data: bytes) -> str:
    """The codec of a file: by its byte order mark, its declaration, or UTF-8."""
    # A declaration counts on the first two lines only.
    head = b"\n".join(data.split(b"\n", 2)[:2])
    if b"coding" not in head:
        return "utf-8-sig" if data.startswith(_UTF8_BOM) else "utf-8"
    # Deferred: few files declare an encoding.
    from tokenize import detect_encoding

    lines = iter(head.splitlines(keepends=True)[:2])
    try:
        return detect_encoding(lambda: next(lines, b""))[0]
    except SyntaxError as error:
        raise UndecodableError(str(error.msg)[:_LONGEST_NAME]) from None


def _position(data: bytes, index: int) -> tuple[int, int]:
    before = data[:index].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode("utf-8", "replace")) + 1
