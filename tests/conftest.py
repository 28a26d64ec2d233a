"""What every test can rely on: no proxy, no colours, UTC, and no setting of the machine's owner."""

from __future__ import annotations

import os
import time

UNWANTED = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "no_color", "force_color"}

for name in list(os.environ):
    if name.lower() in UNWANTED or name.startswith("AMENDS_"):
        del os.environ[name]
os.environ.update({"TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "COLUMNS": "120"})
time.tzset()
