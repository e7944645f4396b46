#!/usr/bin/env bash
# The steps of gate/action.yml. What a workflow says arrives in variables and never in a script or an argument.
set -euo pipefail

action=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$RUNNER_TEMP/evalgate-venv
container=$RUNNER_TEMP/evalgate-container # the file with the container's id

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

# Why the gate cannot run in a container here; nothing where it can.
why_no_container() {
  if [ "$RUNNER_OS" != Linux ]; then
    echo "the image needs Linux"
  elif [ -n "$JOB_CONTAINER" ]; then
    echo "the job runs in a container of its own" # whose paths no other container can mount
  elif ! docker version >/dev/null 2>&1; then
    echo "no Docker engine answers"
  fi
}

# How the gate runs here, and what distinguishes the caches and artifacts of several gates in one workflow run.
plan() {
  local label=$NAME why way=container
  if [ "$RUNNER_OS" = Windows ]; then
    echo "::error title=evalgate::evalgate does not run on Windows: use a runner with Linux or macOS"
    exit 3
  fi
  why=$(why_no_container)
  if [ -n "$why" ]; then
    way=uv
    echo "::warning title=evalgate::without isolation: $why, so agents run with the rights of this step"
  fi
  label=${label//[\":<>|*?\\\/,[:space:]]/-}
  output way "$way"
  output gate "${label:+-$label}"
  output suffix "${label:+-$label}${SHARD:+-shard-${SHARD%%/*}}"
}

# The image that the root action names: pulled by digest in a release, else built from the Dockerfile.
image() {
  local name
  name=$(sed -n 's/^  image: //p' "$action/action.yml")
  if [ "$name" = Dockerfile ]; then
    name=$(docker build --quiet "$action")
  else
    name=${name#docker://}
    docker image inspect "$name" >/dev/null 2>&1 || docker pull --quiet "$name" >/dev/null
  fi
  output image "$name"
  echo "time: image $SECONDS s"
}

# uv by the lock's hashes, where the machine has none.
uv_program() {
  if command -v uv; then return; fi
  local folder=$RUNNER_TEMP/evalgate-uv
  awk '/^[^ ]/ {wanted = /^uv==/} wanted' "$action/requirements.lock" >"$folder.lock"
  python3 -m pip install --quiet --no-color --root-user-action ignore --disable-pip-version-check --require-hashes \
    --only-binary :all: --no-deps \
    --target "$folder" --requirement "$folder.lock" >&2
  echo "$folder/bin/uv"
}

# The packages of the image, by the same hashes, and evalgate beside them.
environment() {
  local uv
  uv=$(uv_program)
  cd "$RUNNER_TEMP" # no settings of the repository
  rm -rf "$venv"
  "$uv" venv --quiet --no-project --python '>=3.11' "$venv"
  UV_COMPILE_BYTECODE=1 "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes \
    --build-constraints "$action/requirements-build.lock" --requirement "$action/requirements.lock"
  cp -R "$action/evalgate" "$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/"
  echo "time: packages of evalgate $SECONDS s"
}

# Names of variables that begin with one of GITHUB_, RUNNER_, INPUT_, ACTIONS_ID_TOKEN_. awk also sees those with hyphens.
own_names() { awk 'BEGIN {for (name in ENVIRON) if (name ~ /^(GITHUB|RUNNER|INPUT|ACTIONS_ID_TOKEN)_|^CI$/) print name}'; }

# Names in the context `env`, which is all that GitHub would pass to a container action besides its own. Each is on a
# line of its own, whatever the values hold.
workflow_names() {
  sed -n 's/^  "\([A-Za-z_][A-Za-z0-9_]*\)": .*/\1/p' <<<"$WORKFLOW_ENV" | grep -vxE 'PATH|HOME|WORKFLOW_ENV' || true
}

# The container as the runner starts that of a container action, but without Docker's socket.
run_container() {
  local name value place arguments=() places=(
    "$GITHUB_WORKSPACE=/github/workspace"
    "$(dirname "$GITHUB_EVENT_PATH")=/github/workflow"
    "$(dirname "$GITHUB_OUTPUT")=/github/file_commands"
    "$RUNNER_TEMP/_github_home=/github/home"
    "$RUNNER_TEMP=/github/runner_temp"
  )
  mkdir -p "$RUNNER_TEMP/_github_home"
  for place in "${places[@]}"; do
    arguments+=(--volume "${place%=*}:${place##*=}")
  done
  if [ -n "$NETWORK" ]; then arguments+=(--network "${NETWORK%% *}"); fi
  while IFS= read -r name; do
    arguments+=(--env "$name")
    if [[ $name == *-* ]]; then continue; fi # no variable of the shell, and none of them holds a path
    value=${!name-}
    for place in "${places[@]}"; do
      if [[ $value == "${place%=*}" || $value == "${place%=*}"/* ]]; then
        export "$name=${place##*=}${value#"${place%=*}"}"
        break
      fi
    done
  done < <({ own_names; workflow_names; } | sort --unique)
  rm -f "$container"
  # exec: a cancelled job signals this process, and docker hands it on
  exec docker run --rm --cidfile "$container" --workdir /github/workspace --env HOME=/github/home "${arguments[@]}" "$IMAGE"
}

run() {
  export INPUT_CACHE=${INPUT_CACHE:-.cache/evalgate} # what gate/action.yml restores and saves
  if [ "$WAY" = container ]; then run_container; fi
  unset WORKFLOW_ENV
  cd "$GITHUB_WORKSPACE"
  exec "$venv/bin/python" -I -u "$action/entrypoint.py"
}

# What the artifacts hold: the folder of reports, and the page, which GitHub names by its file. Of a shard there is none.
reports() {
  local folder=${ROOT:-.}/${OUTPUT:-evalgate-report} page=
  if [ -s "$container" ]; then docker rm --force "$(cat "$container")" >/dev/null 2>&1 || true; fi
  if [ -n "$HTML" ]; then folder=$(dirname "$HTML"); fi
  if [ -z "$SHARD" ] && [ -f "$GITHUB_WORKSPACE/$folder/report.html" ]; then
    page=$folder/report.html
    if [ -n "$SUFFIX" ]; then
      page=$RUNNER_TEMP/evalgate$SUFFIX.html
      cp "$GITHUB_WORKSPACE/$folder/report.html" "$page"
    fi
  fi
  output folder "$folder"
  output page "$page"
}

"$1"
