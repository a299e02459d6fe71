from servers.launch.engines.flaglist import FlagList, load_shipped


def vllm_32() -> FlagList:
    found = load_shipped("vllm", "0.32.0")
    assert found is not None
    return found


HELP = """\
options:
  --model MODEL         Which. (default: None)
  --tensor-parallel-size N, -tp N
                        How many. (default: 1)
  --max-model-len N     How long. (default: None)
  --port PORT           Where. (default: 8000)
  --brand-new           Only here. (default: False)
"""
