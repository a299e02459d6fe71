"""Private things in the places where they stand in logs, commands and files."""

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hLxRuYiO"
# A line, and what must not be left of it.
PLANTED: list[tuple[str, tuple[str, ...]]] = [
    # tokens by their shape
    (f"401 for hf_{LETTERS[:34]} at the Hub", (LETTERS[:34],)),
    (f"cloning with ghp_{LETTERS[:36]} and glpat-{LETTERS[:20]}", (LETTERS[:20],)),
    ("Authorization: Bearer let-me-in-42", ("let-me-in-42",)),
    ("cookie eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl", ("eyJzdWIi", "c2lnbmF0")),
    (f"a word of nobody knows what: {LETTERS}", (LETTERS,)),
    # secrets by the name beside them
    ("-e WANDB_API_KEY=ab,cd+ef -e OTHER=1", ("ab,cd", "+ef")),
    ("PASSWORD=12345678", ("12345678",)),
    ("password: 'correct horse; battery'", ("correct", "horse", "battery")),
    ('{"db_password": "s3same", "port": 1}', ("s3same",)),
    (r"{\"client_secret\": \"s3same-2\"}", ("s3same-2",)),
    ("vllm serve a/b --api-key sesame --port 8000", ("sesame",)),
    ("['--hf-token', 'sesame-one', '--port']", ("sesame-one",)),
    ("  - --api-key\n  - sesame-two", ("sesame-two",)),
    ("  - name: HUB_TOKEN\n    value: sesame-three", ("sesame-three",)),
    ("vllm serve a/b --api-key \\\n  sesame-six --port 1", ("sesame-six",)),
    ("command: >\n  vllm serve a/b --api-key\n  sesame-seven\n  --port 1", ("sesame-seven",)),
    ("VLLM_API_KEY=supersecret --api-key my_secret_key", ("supersecret", "my_secret")),
    ("${VLLM_API_KEY:-sesame seven} --key ${DB_PASS-sesame-8}", ("sesame", "seven")),
    ('{"password": "s3same c0rn m0on', ("s3same", "c0rn", "m0on")),
    (r'password: "w1ne\" m0on", x', ("w1ne", "m0on")),
    ('[{"name":"HF_TOKEN","value":"sesame-nine"}]', ("sesame-nine",)),
    ('  "key": "DB_PASS",\n  "value": "sesame-ten"', ("sesame-ten",)),
    ('{"accessToken": "s3same-3", "clientSecret": "s3same-4"}', ("s3same",)),
    ("OPENAI_KEY=s3same-5 DB_PASS=s3same-6, OPENAI_KEY: s3same-7", ("s3same",)),
    ("['--api-key', 's3same-8', 's3same-9', '--port']", ("s3same",)),
    ("[(b'x-api-key', b'hunter2'), ('x-api-key', 'hunter3')]", ("hunter",)),
    ("HTTPS_PROXY=lovelace:s3same@mark9.navy.example:3128", ("lovelace", "s3same", "navy")),
    (
        "docker login -u hopper -p sesame-four registry.navy.example",
        ("hopper", "sesame-four", "navy"),
    ),
    ("curl -u hopper:sesame-five http://10.9.8.7/", ("hopper", "sesame-five", "10.9.8.7")),
    ('{"auths": {"x": {"auth": "aG9wcGVyOm1hcmtJSQ=="}}}', ("aG9wcGVy",)),
    ("https://cas.navy.example/x?X-Amz-Signature=0a1b2c&Expires=17", ("0a1b2c", "navy")),
    ("http://hopper:mark-two@proxy.navy.example:3128", ("hopper", "mark-two", "navy")),
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAAdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
        ("b3BlbnNz", "AAAAdjEA"),
    ),
    # on one line, of PGP, and where the log cuts it
    ("-----BEGIN PRIVATE KEY-----MIIEvQIBADANB-----END PRIVATE KEY----- x", ("MIIEvQ",)),
    (
        f"a\n-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{LETTERS * 2}\n=x9Zk\n-----END PGP PRIVATE KEY BLOCK-----\n",
        (LETTERS[:20], "x9Zk"),
    ),
    (
        f"-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-256-CBC,77\n\n/+{LETTERS}/{LETTERS}\n  /+{LETTERS[:9]}",
        (LETTERS[:8],),
    ),
    # what is put together again where colours are taken out
    (f"hf_{LETTERS[:9]}\x1b[1m{LETTERS[9:34]}\x1b[0m", (LETTERS[:9], LETTERS[9:34])),
    ("--api-key \x1b[32msesame\x1b[0m -v /home/ho\x1b[1mpper/x:/x", ("sesame", "pper")),
    # people
    ("tell grace.hopper+gpu@navy.example.org", ("grace.hopper", "navy")),
    ("-v /home/hopper/models:/models", ("hopper",)),
    ("/Users/hopper/x and C:\\Users\\hopper\\x", ("hopper",)),
    ("USER=hopper uid=1000(hopper) gid=1000", ("hopper",)),
    ("started by hopper, and again by hopper.", ("hopper",)),
    ("hopper@mark1:~$ ssh hopper@mark2", ("hopper", "mark1", "mark2")),
    ("the folder /srv/ada-models belongs to ada", ("ada-models", " ada")),
    # hosts
    ("Nov 21 10:00:00 mark1 docker[812]: up on mark1", ("mark1",)),
    ("mark1:12:34 [0] NCCL INFO Bootstrap", ("mark1",)),
    ("mark7:1:1 [0] misc/socket.cc:485 NCCL WARN x", ("mark7",)),
    ("[c10d] connect to [mark7]:29500, addresses of (mark8, 29500)", ("mark7", "mark8")),
    ("ray start --address=mark7:6379 and RAY_ADDRESS=mark8:6379", ("mark7", "mark8")),
    (
        'x:\n  extra_hosts:\n    - "mark7:10.9.8.7"\n    - mark8=10.9.8.7\n  ports:\n    - x\nto mark7, mark8',
        ("mark7", "mark8", "10.9"),
    ),
    ("ping mark7.fritz.box", ("mark7", "fritz")),
    ("  host      : mark3.navy.example.org", ("mark3", "navy")),
    ("--hostname mark4 --add-host mark5:10.9.8.6", ("mark4", "mark5", "10.9.8.6")),
    ("registry.navy.example:5000/team/vllm:nightly", ("navy",)),
    ("tcp://mark6.navy.lan:29500 and ip-10-9-8-5", ("mark6", "navy", "10-9-8-5")),
    ("the box rtx-basement is RTX-BASEMENT", ("basement", "BASEMENT")),
    # addresses
    ("10.9.8.7 172.18.9.8 192.168.9.8 169.254.9.8 100.70.9.8", ("10.9", ".9.8")),
    ("from 8.8.4.4:443 and 2a00:1450:4001:81b::200e", ("8.8.4.4", "1450")),
    ("[fd12:3456:789a::1] fe80::1ff:fe23:4567:890a%eth0", ("3456", "fe23")),
    ("02:42:ac:11:9c:02 GPU-1b4e28ba-2fa1-11d2-883f-b9a761bde3fb", ("9c:02", "1b4e28ba")),
    # the model and words that a person names
    ("loading navy/Cobol-7B from models--navy--Cobol-7B, cobol-7b-Q4.gguf", ("navy", "obol-7")),
    ("served as compiler-prod for Acme Shipping", ("compiler", "Acme", "Shipping")),
]

# What tells of nobody, and is needed.
HARMLESS = [
    "nvidia-cublas-cu12==12.8.4.1, cuDNN 9.10.2.21, torch 2.9.1+cu130, driver 580.126.09",
    "eos_token='</s>' pad_token_id=2 max_tokens=4096 --max-num-batched-tokens 8192",
    "jinja2.exceptions.TemplateSyntaxError: unexpected token: 'endfor'",
    "security: --api-key is not set, see --api-key-file; api_key=None HF_TOKEN=$HF_TOKEN",
    "usage: vllm serve [--api-key API_KEY [API_KEY ...]] [--hf-token <your token>]",
    'File "/usr/local/lib/python3.12/dist-packages/torch/distributed/run.py", line 5, in main',
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: rank 3",
    "KeyError: 'model.layers.0.self_attn.qkv_proj.weight_scale'",
    "undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
    "architectures ['Qwen3VLMoeForConditionalGeneration'] are not supported",
    "lmsysorg/sglang:v0.5.12@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "docker.io/vllm/vllm-openai:v0.20.2 nvcr.io/nvidia/vllm:25.11 ghcr.io/ggml-org/llama.cpp:server",
    "https://errors.pydantic.dev/2.11/v/value_error https://huggingface.co/Qwen/Qwen3-8B",
    "INFO: Uvicorn running on http://0.0.0.0:8000, http://127.0.0.1:8000 and http://localhost:8000",
    "/build/llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu:88: CUDA error at 0000:31:00.0",
    "tensor_parallel_size=2 --max-model-len 32768; ray start --head; max reached at 12:30:45",
    "std::vector<c10::Half> at::Tensor [W1121 10:00:00.123456789 socket.cpp:767]",
    "${API_KEY:?set it} --api-key ${API_KEY} HF_TOKEN=YOUR_TOKEN token=self.token, api_key=api_key",
    "error: argument --api-key: expected at least one argument; eosToken: '</s>', sortKey: 'id'",
    "ray start --address=auto, listen on [::]:29500, the target.box of (batch, 4096), ray://localhost",
    "NVIDIA RTX 6000 Ada Generation, NVIDIA GB10",
]
