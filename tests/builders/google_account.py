"""A service account of Google Cloud whose tokens a local server hands out."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@functools.cache
def _key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def written(folder: Path, token_uri: str) -> Path:
    """What GOOGLE_APPLICATION_CREDENTIALS may name."""
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": _key(),
        "client_email": "judge@p.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }
    path = folder / "account.json"
    path.write_text(json.dumps(account), encoding="utf-8")
    return path
