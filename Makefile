# Everything a newcomer needs: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
STAMP := $(VENV)/.installed
NPM_LOCK := requirements-npm.lock
NODE := $(VENV)/.node-installed
# The tests of layers and style, which `make check` runs.
HOUSE := tests/test_layers.py tests/test_style.py
# Which tenth of the sweeps `make test-all` takes: another one each day, and any again with SEED=….
SEED ?= $(shell date -u +%F)
# Without kept bytecode every process of the tests compiles all it imports: half the time of a run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all check measure mutate sweep sweep-tenth test-mcp test-agents fuzz bench lock docs pictures clean help

help:
	@echo "make demo    install, then watch a plan being checked, approved, run, killed and resumed"
	@echo "make test    install, then run every check and every quick test; needs nothing but Python and bash"
	@echo "make test-all  what make test leaves out: slow tests, outside programs, npm, a tenth of the sweeps, make mutate"
	@echo "               (tools/install-programs first)"
	@echo "make check   ruff, mypy --strict, the layer drawing against the real imports"
	@echo "make measure  lines by room, sizes, names that exist twice, modules that name actions"
	@echo "make mutate  break one guarantee at a time; the test named beside it must fail (tests/mutants)"
	@echo "make sweep   the long crash sweeps: a run and the gate disturbed at every call, power lost, executors frozen, 100 at once"
	@echo "make test-agents  real command-line agents from npm against a scripted model: they propose plans, and they carry out steps"
	@echo "make test-mcp  the MCP server against the protocol's own conformance suite and inspector (from npm)"
	@echo "make fuzz    the property tests with ten times the examples"
	@echo "make bench   speed beside peers and beside the physical floor"
	@echo "make lock    renew the hashed lock after a change of dependencies"
	@echo "make pictures  take the pictures in docs/pictures/ anew (needs tmux)"
	@echo "make docs    write the generated pages: docs/problems.md, docs/glossary.md"

$(STAMP): $(LOCK) pyproject.toml tools/make-venv
	@PYTHON="$(PYTHON)" tools/make-venv $(VENV) $(LOCK)
	@touch $@

$(NODE): $(NPM_LOCK) $(STAMP)
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --no-deps --require-hashes -r $(NPM_LOCK)
	@touch $@

demo: $(STAMP)
	@$(BIN)/python tools/demo.py

check: $(STAMP)
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy --num-workers 2
	$(BIN)/pytest -p no:cacheprovider $(HOUSE)

test: check
	$(BIN)/pytest -n 2 --dist worksteal $(HOUSE:%=--ignore=%)

# What `make test` leaves out. Tests that were skipped there for want of a program fail here.
test-all: check .npm-mcp/.installed
	ORDAIN_TEST_PROGRAMS=required $(BIN)/pytest -m '(slow or programs or hypothesis) and not sweep' --hypothesis-profile=often -n 2 --dist worksteal
	$(BIN)/pytest -m mcp -n 2 tests/mcp
	$(MAKE) sweep-tenth
	$(MAKE) mutate

sweep-tenth: $(STAMP)
	ORDAIN_TEST_PROGRAMS=required $(BIN)/pytest -m sweep --tenth $(SEED) -n 2 --dist worksteal

measure: $(STAMP)
	@$(BIN)/python tools/measure.py

mutate: $(STAMP)
	$(BIN)/python tools/mutate.py $(AREA)

sweep: $(STAMP)
	$(BIN)/pytest -m sweep -n 2 -rP

.npm-agents/.installed: $(NODE) tests/agents/npm/package-lock.json tools/make-node
	@PYTHON=$(BIN)/python tools/make-node .npm-agents tests/agents/npm
	@touch $@

test-agents: .npm-agents/.installed
	ORDAIN_TEST_PATIENCE=3 $(BIN)/pytest -m agents -n 2 tests/agents

.npm-mcp/.installed: $(NODE) tests/mcp/npm/package-lock.json tools/make-node
	@PYTHON=$(BIN)/python tools/make-node .npm-mcp tests/mcp/npm
	@touch $@

test-mcp: .npm-mcp/.installed
	$(BIN)/pytest -m mcp -n 2 tests/mcp

fuzz: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal --hypothesis-profile=thorough --timeout 1200 tests/core tests/documents

bench: $(STAMP)
	$(BIN)/python -m bench

lock: $(STAMP)
	$(BIN)/python tools/make_lock.py $(LOCK) $(NPM_LOCK)

docs: $(STAMP)
	$(BIN)/python tools/make_docs.py

pictures: $(STAMP)
	$(BIN)/python tools/make_pictures.py

clean:
	rm -rf $(VENV) .venv-bench .npm-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
