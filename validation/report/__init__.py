"""The exported report: writing it, checking it, and the pieces of its page."""

from validation.report.files import ReportError
from validation.report.folder import check_folder, write, write_certificate
from validation.report.page import payload, render, render_html, show

__all__ = [
    "ReportError",
    "check_folder",
    "payload",
    "render",
    "render_html",
    "show",
    "write",
    "write_certificate",
]
