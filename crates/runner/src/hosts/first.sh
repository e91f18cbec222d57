# On the first host of an MPI program (spec/jobs/mpi.md, N22), as a guest: once all others are there it becomes the launcher.
meeting=$1 hosts=$2 ranks=$3 option=$4 launcher=$5
shift 5
mkdir -p "$meeting" || exit 125
# MPICH's UCX uses the networks that it finds listed here, as links.
while read -r name rest; do
    case $name in
    *:*) ln -s . "/sys/class/net/${name%%:*}" 2>/dev/null ;;
    esac
done </proc/net/dev
number=1 others=
while [ "$number" -lt "$hosts" ]; do
    tries=0
    until [ -e "$meeting/$number.here" ]; do
        tries=$((tries + 1))
        # 120 s: an engine starts all of a job at once, or says why not.
        if [ "$tries" -gt 2400 ]; then
            echo "kumiko: host $number of this job's $hosts did not come up within 120 s" >&2
            exit 125
        fi
        sleep 0.05
    done
    read -r address own <"$meeting/$number.here"
    others=$others,$address:$ranks
    number=$((number + 1))
done
# What the launcher calls in the place of ssh: `launch [-x] ADDRESS COMMAND...`. The command is one for a shell, as ssh has it.
cat >"$meeting/launch" <<'END'
#!/bin/sh
meeting=${0%/*}
while :; do
    case $1 in
    -*) shift ;;
    *) break ;;
    esac
done
wanted=$1
shift
for here in "$meeting"/*.here; do
    read -r address own <"$here"
    place=${here%.here}
    if [ "$address" = "$wanted" ] && [ ! -e "$place.run" ]; then
        printf '%s\n' "$*" >"$place.new" && mv "$place.new" "$place.run"
        exit
    fi
done
echo "kumiko: $wanted is no host of this job that is still to be called" >&2
exit 1
END
chmod 700 "$meeting/launch" || exit 125
export HYDRA_LAUNCHER_EXEC="$meeting/launch" OMPI_MCA_plm_rsh_agent="$meeting/launch" PRTE_MCA_plm_ssh_agent="$meeting/launch"
# A host on which nothing came of it would be waited for in vain. Twice: what fails because the program ends is not it.
(
    exec </dev/null >/dev/null
    seen=
    while sleep 1; do
        for failed in "$meeting"/*.failed; do
            [ -e "$failed" ] || continue
            if [ -n "$seen" ]; then
                cat "$failed" >&2
                kill -TERM $$
                exit
            fi
            seen=yes
        done
    done
) &
if [ "$option" = -hosts ]; then
    # MPICH's would tell the others the name of its host, which need not lead here.
    exec "$launcher" -localhost "$own" -hosts "$own:$ranks$others" "$@"
fi
exec "$launcher" "$option" "$own:$ranks$others" "$@"
