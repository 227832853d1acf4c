"""The two pieces that every figure has: words, and the document around its parts."""

from __future__ import annotations

INK = "#57606a"


def text(x, y, words, *, anchor="start", size=13, colour=INK, weight=400):
    """Return words at a place."""
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{words}</text>'


def document(parts, *, width, height, label, between=""):
    """Return a whole figure on white, with words for those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" '
        f'role="img" aria-label="{label}"><rect width="{width}" height="{height}" fill="#fff"/>'
        + between.join(("", *parts, ""))
        + "</svg>\n"
    )
