"""What an engine is started with."""

from __future__ import annotations

import os

import pytest

from llm_variability.draws import engine


@pytest.mark.parametrize(("cores", "spare"), [(2, "0"), (4, "0"), (32, None)])
def test_a_small_cpu_spares_the_engine_no_core(
    cores: int, spare: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(engine, "runs_on_cpu", lambda: True)
    settings = engine.server_environment()
    assert settings["OMP_NUM_THREADS"] == str(cores)
    assert settings.get("VLLM_CPU_NUM_OF_RESERVED_CPU") == spare


def test_a_gpu_s_engine_keeps_the_threads_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "runs_on_cpu", lambda: False)
    assert not {"OMP_NUM_THREADS", "VLLM_CPU_KVCACHE_SPACE"} & set(engine.server_environment())


def test_an_engine_is_offline_and_on_loopback() -> None:
    settings = engine.server_environment()
    assert settings["HF_HUB_OFFLINE"] == settings["TRANSFORMERS_OFFLINE"] == "1"
    assert settings["VLLM_HOST_IP"] == "127.0.0.1"
    assert settings["GLOO_SOCKET_IFNAME"] == "lo"
