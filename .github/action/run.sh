#!/usr/bin/env bash
# One mode of the action: what etcompile says goes to the log as annotations, to the job's summary
# and to a file for a comment; outputs go to GITHUB_OUTPUT. The exit code is that of the job.
set -euo pipefail

summary="${RUNNER_TEMP:-/tmp}/etcompile-summary.md"
scratch=$(mktemp -d "${RUNNER_TEMP:-/tmp}/etcompile-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# GitHub takes 65,536 characters in a comment; what is counted here is bytes.
longest=60000

# Words of $1, one a line. xargs takes quotes as a shell does, and expands nothing.
words() {
  [ -z "${1//[[:space:]]/}" ] || xargs printf '%s\n' <<<"$1"
}
words "${ETCOMPILE_ARGS:-}" >"$scratch/args"
words "${ETCOMPILE_RENDER_ARGS:-}" >"$scratch/render-args"
printf '%s\n' "${ETCOMPILE_PATHS:-jobs}" >"$scratch/paths"

# No mapfile: the bash of macOS has none.
args=() render_args=() paths=()
while IFS= read -r word; do args+=("$word"); done <"$scratch/args"
while IFS= read -r word; do render_args+=("$word"); done <"$scratch/render-args"
while IFS= read -r word; do [ -z "$word" ] || paths+=("$word"); done <"$scratch/paths"

capacity=()
[ -z "${ETCOMPILE_CAPACITY:-}" ] || capacity=(--capacity "$ETCOMPILE_CAPACITY")

output=${ETCOMPILE_OUTPUT:-}
against=${ETCOMPILE_AGAINST:-${ETCOMPILE_BASE:-}}
changed=false
code=0

# etcompile on the job's paths: the command, and options beside those of the user.
run() {
  etcompile "$@" ${args[@]+"${args[@]}"} -- "${paths[@]}"
}

# `etcompile render` to the output folder.
render() {
  run render "$@" ${render_args[@]+"${render_args[@]}"} -d "$output"
}

# Lines of standard input as a block of code that nothing in them ends, cut where it gets too long.
block() {
  echo "\`\`\`\`\`\`\`\`\`\`$1"
  LC_ALL=C awk -v room="$longest" '
    { gsub(/``````````+/, "`````````"); size += length($0) + 1 }
    size <= room { print; next }
    { more += 1 }
    END { if (more) print "… " more " more lines" }
  '
  echo '``````````'
}

# A heading, whether it went well, and what was said.
write_summary() {
  local state=$1 language=$2 said=$3
  {
    echo "### etcompile $ETCOMPILE_MODE: $state"
    echo
    if [ -s "$said" ]; then
      block "$language" <"$said"
    fi
  } >"$summary"
}

# Annotations for the log, and the same words for the summary.
annotate() {
  run check ${capacity[@]+"${capacity[@]}"} --output-format github || code=$?
  run check ${capacity[@]+"${capacity[@]}"} --output-format text --color never 2>"$scratch/said" || true
  [ -z "${ETCOMPILE_SARIF:-}" ] || run check ${capacity[@]+"${capacity[@]}"} --output-format sarif >"$ETCOMPILE_SARIF" || true
  [ -z "${ETCOMPILE_RDJSON:-}" ] || run check ${capacity[@]+"${capacity[@]}"} --output-format rdjson >"$ETCOMPILE_RDJSON" || true
}

case ${ETCOMPILE_MODE:=check} in
  check)
    annotate
    state="accepted"
    [ "$code" = 0 ] || state="refused"
    if [ "$code" = 0 ] && [ -n "$output" ]; then
      render --check --color never >"$scratch/diff" 2>"$scratch/why" || code=$?
      case $code in
        0) state="\`$output\` is up to date" ;;
        1)
          changed=true
          state="\`$output\` is not up to date: render it and commit that"
          echo "::error title=etcompile::$output is not up to date: render it and commit that"
          ;;
        *)
          state="the change of \`$output\` is refused"
          echo "::error title=etcompile::the change of $output is refused"
          ;;
      esac
      [ "$code" = 0 ] || cat "$scratch/diff" "$scratch/why" >"$scratch/said"
      [ "$code" = 0 ] || cat "$scratch/said"
    fi
    write_summary "$state" diff "$scratch/said"
    # What merging would do, as far as the summary has room for it.
    if [ -n "$output" ] && [ -n "$against" ]; then
      run diff --against "$against" -o markdown --exit-zero >"$scratch/changes" 2>/dev/null || true
      size=$(cat "$summary" "$scratch/changes" | wc -c)
      [ "$size" -gt "$longest" ] || cat "$scratch/changes" >>"$summary"
    fi
    ;;
  render)
    if [ -z "$output" ]; then
      echo "::error title=etcompile::mode render needs output"
      exit 2
    fi
    annotate
    state="refused"
    if [ "$code" = 0 ]; then
      render --check --quiet >/dev/null 2>&1 || changed=true
      render 2>"$scratch/said" || code=$?
      cat "$scratch/said" >&2
      if [ "$code" = 0 ]; then state="\`$output\` is written"; else changed=false; fi
    fi
    write_summary "$state" "" "$scratch/said"
    ;;
  diff)
    run diff --against "${against:-HEAD~1}" ${capacity[@]+"${capacity[@]}"} -o markdown \
      >"$scratch/diff" 2>"$scratch/said" || code=$?
    cat "$scratch/said" >&2
    if [ "$code" -le 1 ]; then
      [ "$code" = 0 ] || changed=true
      code=0
      cp "$scratch/diff" "$summary"
    else
      write_summary "no diff" "" "$scratch/said"
    fi
    ;;
  *)
    echo "::error title=etcompile::mode is '$ETCOMPILE_MODE'; use check, render or diff"
    exit 2
    ;;
esac

digest=
if [ "$code" = 0 ] || [ "$changed" = true ]; then
  kept=()
  [ -z "$output" ] || [ ! -d "$output" ] || kept=(--previous "$output")
  if run render ${render_args[@]+"${render_args[@]}"} ${kept[@]+"${kept[@]}"} \
    -d "$scratch/rendered" --quiet >/dev/null 2>&1; then
    digest=sha256:$(
      cd "$scratch/rendered" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum |
        sha256sum | cut -d " " -f 1
    )
  fi
fi

{
  echo "changed=$changed"
  echo "digest=$digest"
  echo "summary-file=$summary"
} >>"$GITHUB_OUTPUT"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$summary" >>"$GITHUB_STEP_SUMMARY"
exit "$code"
