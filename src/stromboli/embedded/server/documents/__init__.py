"""What clients read before they do anything: which resources there are, and what their fields are."""

from .discovery import VERSION, handle_discovery, version_document
from .openapi import OpenApi

__all__ = ["VERSION", "OpenApi", "handle_discovery", "version_document"]
