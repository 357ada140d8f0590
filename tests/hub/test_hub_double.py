"""The double answers as the Hub's own client expects, or the push tests prove nothing."""

import json

from hub_double import run_client

CLIENT = """
import json
from datasets import Dataset, load_dataset
from huggingface_hub import CommitOperationAdd, HfApi, HfFileSystem, hf_hub_download
api, done = HfApi(), {"user": HfApi().whoami()["name"]}
api.create_repo("tester/d", repo_type="dataset", private=True)
api.create_repo("tester/d", repo_type="dataset", exist_ok=True)
files = {"README.md": b"---\\nlicense: mit\\n---\\n", "a/x.txt": b"xy", "w.safetensors": bytes(range(256)) * 4096}
api.create_commit("tester/d", [CommitOperationAdd(*f) for f in files.items()], commit_message="m", repo_type="dataset")
api.upload_file(path_or_fileobj=b"new", path_in_repo="a/y.txt", repo_id="tester/d", repo_type="dataset", create_pr=True)
done["pr"] = sorted(api.list_repo_files("tester/d", repo_type="dataset", revision="refs/pr/1"))
api.delete_file("a/x.txt", "tester/d", repo_type="dataset")
done["main"] = sorted(api.list_repo_files("tester/d", repo_type="dataset"))
file = HfFileSystem().open("datasets/tester/d@main/w.safetensors", "rb", block_size=1000)
file.seek(1000 * 256 + 7)
done["range"] = list(file.read(3))
Dataset.from_dict({"n": [1, 2]}).push_to_hub("tester/e", config_name="vqa", private=True)
done["rows"] = load_dataset("tester/e", "vqa", split="train")["n"][:]
done["errors"] = []
for repo in ("tester/absent", "tester/d"):
    try:
        hf_hub_download(repo, "absent.txt", repo_type="dataset")
    except Exception as error:
        done["errors"].append(type(error).__name__)
print(json.dumps(done))
"""


def test_the_official_client_works_against_it(hub):
    done = json.loads(run_client(hub, CLIENT).stdout.splitlines()[-1])
    assert done["user"] == "tester"
    assert done["pr"] == ["README.md", "a/x.txt", "a/y.txt", "w.safetensors"]
    assert done["main"] == ["README.md", "w.safetensors"]
    assert done["range"] == [7, 8, 9]
    assert done["rows"] == [1, 2]
    assert done["errors"] == ["RepositoryNotFoundError", "RemoteEntryNotFoundError"]
    assert hub.repos["datasets", "tester/e"].private


def test_private_repositories_need_the_token(hub):
    code = "from huggingface_hub import HfApi; HfApi().list_repo_files('tester/d')"
    run_client(hub, "from huggingface_hub import HfApi; HfApi().create_repo('tester/d', private=True)")
    assert run_client(hub, code).returncode == 0
    assert "RepositoryNotFoundError" in run_client(hub, code, token=None, check=False).stderr
