"""Reads with huggingface_hub what traind has committed to the hub of HF_ENDPOINT, and commits to it."""

import sys
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

folder = Path(sys.argv[1])
weights = (folder / "weights").read_bytes()
api = HfApi()

about = api.model_info("ann/tiny")
assert about.private, about
titles = [commit.title for commit in api.list_repo_commits("ann/tiny")]
assert titles == ["second", "first", "initial commit"], titles
snapshot = Path(snapshot_download("ann/tiny"))
assert (snapshot / "model.safetensors").read_bytes() == weights
assert (snapshot / "last-checkpoint" / "a.txt").exists()
assert not (snapshot / "last-checkpoint" / "b.txt").exists()
assert (snapshot / "empty.txt").read_bytes() == b""
of_branch = hf_hub_download("ann/tiny", "config.json", revision="trial")
assert Path(of_branch).read_text() == "{}"

upload = folder / "upload"
upload.mkdir()
(upload / "config.json").write_text("{}")
(upload / "large.safetensors").write_bytes(weights + b"x")
(upload / "small.safetensors").write_bytes(b"small")
api.create_repo("ann/python", private=False)
api.create_repo("ann/python", exist_ok=True)
api.upload_folder(repo_id="ann/python", folder_path=upload, commit_message="from Python")
# Nothing has changed.
api.upload_folder(repo_id="ann/python", folder_path=upload, commit_message="again")
