#!/usr/bin/env bash
# What the action does: lint, and show what was found where GitHub shows such things. The first run reads the programs,
# the others take its results from the cache.
set -uo pipefail

gpudoctor=$1
# Over several lines, too: then `read` ends with an error, which says nothing.
read -r -d '' -a paths <<<"$PATHS" || true
read -r -d '' -a options <<<"--color never $ARGS" || true
# Settings hold where nothing is said.
[ -z "$FAIL_ON" ] || options+=(--fail-on "$FAIL_ON")
export GPUDOCTOR_CACHE_DIR=${GPUDOCTOR_CACHE_DIR:-$RUNNER_TEMP/gpudoctor-cache}
sarif=$RUNNER_TEMP/gpudoctor.sarif
log=$RUNNER_TEMP/gpudoctor.txt

"$gpudoctor" lint "${options[@]}" --output-format concise "${paths[@]}" >"$log" 2>"$log.end"
code=$?
# No line of these is a command to the runner: gpudoctor sees to it.
cat "$log" "$log.end"

if [ "$code" -le 1 ]; then
    [ "$ANNOTATIONS" != true ] || "$gpudoctor" lint "${options[@]}" --quiet --output-format github "${paths[@]}"
    "$gpudoctor" lint "${options[@]}" --quiet --output-format sarif --output-file "$sarif" "${paths[@]}"
    echo "sarif-file=$sarif" >>"$GITHUB_OUTPUT"
fi
if [ "$SUMMARY" = true ]; then
    # Longer than any fence that a message may hold.
    fence='``````````'
    printf '## gpudoctor\n\n%s\n' "$fence""text" >>"$GITHUB_STEP_SUMMARY"
    # A summary may be a mebibyte.
    head -c 500000 "$log" >>"$GITHUB_STEP_SUMMARY"
    head -c 100000 "$log.end" >>"$GITHUB_STEP_SUMMARY"
    printf '%s\n' "$fence" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
