"""The terminal program as one file that any Python runs: served by the inferdash it speaks to."""

import io
import zipapp
import zipfile
from functools import cache
from pathlib import Path

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

_HERE = Path(__file__).parent
_SERVER_SIDE = ("download.py",)
_START = "import sys\nfrom inferdash.terminal.__main__ import main\nsys.exit(main())\n"


@require_GET
@login_not_required  # it is a program, the same for everybody; what it does needs a key
def program(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(
        pack(),
        content_type="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="inferdash.pyz"'},
    )


@cache
def pack() -> bytes:
    plain, whole = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", _START)
        archive.writestr("inferdash/__init__.py", "")
        for file in sorted(_HERE.glob("*.py")):
            if file.name not in _SERVER_SIDE:
                archive.write(file, f"inferdash/terminal/{file.name}")
    plain.seek(0)
    zipapp.create_archive(plain, whole, interpreter="/usr/bin/env python3")
    return whole.getvalue()
