#!/usr/bin/env bash
# What release.yml does to files and tags. VERSION is as 1.2.3, IMAGE as ghcr.io/o/evalgate@sha256:..., REMOTE is where
# tags are pushed to.
set -euo pipefail

fail() {
  echo "::error::$1"
  exit 1
}

# Stops for what is no version, and for one that is not above every release of its major version.
forward() {
  local number='(0|[1-9][0-9]*)' newest
  [[ $VERSION =~ ^$number\.$number\.$number$ ]] || fail "$VERSION is not a version as 1.2.3"
  newest=$(git ls-remote --tags --refs "$REMOTE" "refs/tags/v${VERSION%%.*}.*" | sed 's|.*refs/tags/v||' |
    sort --version-sort | tail -n 1)
  [ "$newest" != "$VERSION" ] || fail "v$VERSION is released already"
  [ "$(printf '%s\n' "$newest" "$VERSION" | sort --version-sort | tail -n 1)" = "$VERSION" ] ||
    fail "v$VERSION is below v$newest, and v${VERSION%%.*} only moves forward"
}

# Has action.yml name the image.
pin() {
  [[ $IMAGE =~ ^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$ ]] || fail "$IMAGE is not an image by digest"
  sed -i "s|^  image: Dockerfile$|  image: docker://$IMAGE|" action.yml
  grep -Fxq "  image: docker://$IMAGE" action.yml || fail "action.yml does not name the image"
}

# A commit whose action.yml names the image, under the version.
tag() {
  forward
  pin
  git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
    commit --quiet --message "Release $VERSION" -- action.yml
  git tag "v$VERSION"
  git push --quiet "$REMOTE" "refs/tags/v$VERSION"
}

# The moving tag, to the newest release of its major version and no other.
major() {
  local newest
  newest=$(git ls-remote --tags --refs "$REMOTE" "refs/tags/v${VERSION%%.*}.*" | sed 's|.*refs/tags/v||' |
    sort --version-sort | tail -n 1)
  [ "$newest" = "$VERSION" ] || fail "v$newest was released meanwhile: v${VERSION%%.*} stays there"
  git fetch --quiet "$REMOTE" "refs/tags/v$VERSION"
  git push --quiet --force "$REMOTE" "FETCH_HEAD:refs/tags/v${VERSION%%.*}"
}

"$1"
