# On the first host of an MPI program (spec/jobs/mpi.md, N22), as a guest: once all others are there it becomes the launcher.
meeting=$1 hosts=$2 ranks=$3 library=$4 launcher=$5
shift 5
mkdir -p "$meeting" || exit 125
# MPICH's UCX uses the networks that it finds listed here, as links.
while read -r name rest; do
    case $name in
    *:*) ln -s . "/sys/class/net/${name%%:*}" 2>/dev/null ;;
    esac
done </proc/net/dev
number=1 others= listed=
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
    listed="$listed
$address slots=$ranks"
    number=$((number + 1))
done
# What the launcher calls in the place of ssh: `launch [-x] ADDRESS COMMAND...`. The command is one for a shell, as ssh has it,
# and like ssh it ends with it, by its status: MPICH's takes one that ends before the other host has called back for a failure.
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
    if [ "$address" = "$wanted" ] && mkfifo "$place.status" 2>/dev/null; then
        exec 3<>"$place.status"
        printf '%s\n' "$*" >"$place.new" && mv "$place.new" "$place.run" && read -r status <&3
        exit "$status"
    fi
done
echo "kumiko: $wanted is no host of this job that is still to be called" >&2
exit 1
END
chmod 700 "$meeting/launch" || exit 125
export HYDRA_LAUNCHER_EXEC="$meeting/launch" OMPI_MCA_plm_rsh_agent="$meeting/launch" PRTE_MCA_plm_ssh_agent="$meeting/launch"
# All at once: one that has been called stays.
export OMPI_MCA_plm_rsh_num_concurrent="$hosts" PRTE_MCA_plm_ssh_num_concurrent="$hosts"
# Tells each `launch` what its command ended with. A host on which nothing came of it would be waited for in vain, where the
# launcher does not heed this: a second later, for what fails because the program ends is not it.
(
    exec </dev/null >/dev/null
    seen=0
    while sleep 0.2; do
        for ended in "$meeting"/*.ended; do
            [ -e "$ended" ] || continue
            # For reading too: it may be that nobody does any more.
            cat "$ended" 1<>"${ended%.ended}.status"
            rm "$ended"
        done
        for failed in "$meeting"/*.failed; do
            [ -e "$failed" ] || continue
            seen=$((seen + 1))
            [ "$seen" -gt 5 ] || break
            cat "$failed" >&2
            kill -TERM $$
            exit
        done
    done
) &
if [ "$library" = mpich ]; then
    # MPICH's would tell the others the name of its host, which need not lead here.
    exec "$launcher" -localhost "$own" -hosts "$own:$ranks$others" "$@"
fi
# A list in a file: of `--host` Open MPI 5 takes the first host's number for 1. Attached: what is called stays, for a room ends
# with its first guest, and the variable alone does not keep it from leaving.
echo "$own slots=$ranks$listed" >"$meeting/hosts" || exit 125
exec "$launcher" --leave-session-attached --hostfile "$meeting/hosts" "$@"
