# Every target is one or two commands that a person could type; contributing/commands.md gives them for machines without make.
PYTHON ?= python3
VENV   ?= .venv
COLAB_PYTHON ?= $(or $(shell python3.13 -c 'print("python3.13")' 2>/dev/null),$(PYTHON))
WORKERS ?= 2
PY     := $(VENV)/bin/python
QUICK  := tests/structure tests/mechanisms tests/models tests/test_validate.py
LIBRARY := tests/mechanisms tests/models tests/training tests/tasks
export CI

.DEFAULT_GOAL := help
.PHONY: help setup lab check test test-newest test-oldest test-colab nightly book pdf look grade reproduce gpu notebooks clean

help:
	@awk -F ':[^#]*## *' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*##/ { printf "  make %-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ To read
lab: setup  ## open the book in JupyterLab: my_book, your copy of it (ARGS for JupyterLab; HEADLESS=1: run one notebook there, and exit)
	$(PY) tools/lab.py $(if $(HEADLESS),--headless) $(ARGS)

book: setup  ## build the website into _build/html
	$(PY) tools/build_notebooks.py --check
	$(VENV)/bin/jupyter-book build . --all -W --keep-going

pdf: setup  ## the book and each chapter as a PDF in build/pdf, typeset by TeX (CHAPTER=02_bahdanau: it alone)
	$(PY) tools/build_notebooks.py --check
	$(PY) tools/make_pdf.py $(CHAPTER)

##@ To teach
grade: setup  ## marks and feedback for the course in COURSE=FOLDER
	$(PY) -m attnbook course grade $(or $(COURSE),$(error say which course: make grade COURSE=FOLDER)) $(ARGS)

##@ To contribute
setup:  ## make .venv and install everything in it (every other target does this first)
	@$(PYTHON) tools/setup_env.py $(VENV)

check: setup  ## two minutes: ruff, the notebooks' rules, layers, types, and the quick tests of mechanisms and models
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(PY) tools/build_notebooks.py --check
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright --pythonpath $(PY)
	$(PY) -m pytest -q -n $(WORKERS) --dist loadfile -m "not slow" $(QUICK) $(ARGS)

test: setup  ## every test, every notebook, and the website's tests (WORKERS=2 processes)
	$(PY) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-newest:  ## the same in .venv-newest, with the newest versions instead of the lock
	@CI= $(PYTHON) tools/setup_env.py .venv-newest
	.venv-newest/bin/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-oldest:  ## the tests of the library in .venv-oldest, with the oldest versions that pyproject.toml names
	@CI= $(PYTHON) tools/setup_env.py .venv-oldest --oldest
	.venv-oldest/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(LIBRARY) $(ARGS)

test-colab:  ## the notebooks, their install line and the library in .venv-colab, with the versions of Google Colab (and its Python, 3.13, where there is one)
	@CI= $(COLAB_PYTHON) tools/setup_env.py .venv-colab --colab
	.venv-colab/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(LIBRARY) chapters $(ARGS)
	.venv-colab/bin/python -m pytest tests/chapters/test_install.py

nightly: setup  ## what takes hours (STEPS="mutants newest ..."): the report is results/nightly.md
	$(PY) tools/nightly.py $(STEPS)

look: book  ## draw what people see first as contact sheets in build/look (SHEETS="site lab github paper")
	$(PY) tools/look.py $(SHEETS)

reproduce: setup  ## make one recorded run again: make reproduce NAME=...
	$(PY) -m attnbook reproduce $(NAME)

gpu: setup  ## with a GPU: its tests, then the recorded runs that are worth most in so many minutes (MINUTES=25)
	$(PY) -m attnbook gpu --minutes $(or $(MINUTES),25)

notebooks: setup  ## run the sources and write the notebooks of chapters/ (CHAPTERS="sources/00_attention ...")
	$(PY) tools/build_notebooks.py $(CHAPTERS)

clean:  ## remove what was built; the environment and what was graded stay
	rm -rf _build build course/example
