"""A widget whose new size asks for no second layout.

Textual lays the whole screen out once more, and paints it again, when the size of a widget's content has become another
one in a layout. Only what sizes itself by that has use for it; a scroll bar that comes or goes asks by itself.
"""

from __future__ import annotations

from textual.geometry import Size


class OneLayout:
    """A mixin for widgets, before the class of Textual."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        updated: bool = super()._size_updated(size, virtual_size, container_size, layout=False)  # type: ignore[misc]
        return updated
