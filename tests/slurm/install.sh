#!/usr/bin/env bash
# Installs what tests/slurm needs, on Debian and as root: the daemons of Slurm, which it does not
# start. Whoever has no root has these tests skipped.
set -euo pipefail
apt-get update -qq
# No service is to be started by the packages.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
trap 'rm -f /usr/sbin/policy-rc.d' EXIT
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurmctld slurmd slurm-client munge >/dev/null
