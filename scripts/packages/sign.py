"""Signs a file with a minisign key, or verifies its signature FILE.minisig. A key with a password asks for it.

usage: sign.py KEY FILE
       sign.py --verify PUBLIC_KEY FILE
"""

import getpass
import sys

import minisign


def main() -> None:
    *options, key, path = sys.argv[1:]
    if options == ["--verify"]:
        verify(key, path)
    else:
        sign(key, path)


def sign(key: str, path: str) -> None:
    with minisign.SecretKey.from_file(key) as secret:
        if secret.is_encrypted():
            secret.decrypt(getpass.getpass(f"password of {key}: "))
        # Signs a hash of the file, as minisign itself does.
        secret.sign_file(path, prehash=True, drop_signature=True)


def verify(key: str, path: str) -> None:
    try:
        minisign.PublicKey.from_file(key).verify_file(path)
    except minisign.Error as error:
        sys.exit(f"{path}: {error}")


if __name__ == "__main__":
    main()
