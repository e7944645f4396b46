# The action's image. GitHub starts it as root, with the user's repository as working directory, and expects neither
# USER nor WORKDIR here. All Python comes from requirements.lock, by hash; nothing is fetched at start.
FROM python:3.13-slim@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements-build.lock requirements.lock /locks/
RUN python -m venv /build && python -m venv --without-pip /opt/evalgate \
 && /build/bin/pip install --quiet --require-hashes --only-binary :all: -r /locks/requirements-build.lock \
 && /build/bin/pip wheel --quiet --require-hashes --no-deps --no-build-isolation -w /wheels -r /locks/requirements.lock \
 && /build/bin/pip --python /opt/evalgate install --quiet --no-index --no-deps --compile /wheels/*.whl
COPY evalgate /opt/evalgate/lib/python3.13/site-packages/evalgate
COPY entrypoint.py /opt/evalgate/
RUN python -m compileall -q /opt/evalgate/lib/python3.13/site-packages/evalgate \
 && /opt/evalgate/bin/python -I -c "from evalgate.text.templates import Template; \
    [Template(name, package='evalgate.reports', names={}).macros \
     for name in ('comment.md.j2', 'report.html.j2', 'sentences.txt.j2')]"

FROM python:3.13-slim@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285
# git: the base's checkout, the files' history; 2.47 is what Debian 13 repairs until its end
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends 'git=1:2.47.*' \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
COPY --from=build /opt/evalgate /opt/evalgate
RUN ln -s /opt/evalgate/bin/uv /usr/local/bin/uv
# -I: neither the repository, nor PYTHON* variables, nor a user's site-packages reach our interpreter
ENTRYPOINT ["/opt/evalgate/bin/python", "-I", "-u", "/opt/evalgate/entrypoint.py"]
