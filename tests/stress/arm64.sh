#!/usr/bin/env bash
# minigrad on 64-bit ARM, emulated on x86 with Debian's packages: an hour or more, one process. As root:
#
#     PYTHON=.venv/bin/python tests/stress/arm64.sh [FOLDER] [SECTION ...]
#
# PYTHON has minigrad's dependencies, and makes the runs on x86 that those on ARM are compared with. FOLDER (default
# /var/tmp/minigrad-arm64) keeps a Debian for ARM, its packages and the compiled kernels for the next time. SECTIONS are
# imports, tests, steps, generate and resume; all of them by default.
#
# An emulator shows wrong instructions and wrong results. It shows neither speed nor missing memory barriers, because
# x86 orders memory more strictly than ARM does: for these, .github/workflows/ci.yml has a machine of the real kind.
set -euo pipefail
cd "$(dirname "$0")/../.."

source=$PWD folder=$(realpath -m "${1:-/var/tmp/minigrad-arm64}")
sections=("${@:2}")
[ ${#sections[@]} -gt 0 ] || sections=(imports tests steps generate resume)
python=$(realpath -s "${PYTHON:-$(command -v python3)}")
root=$folder/root work=$folder/work registered=/proc/sys/fs/binfmt_misc/qemu-aarch64
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE NUMBA_CPU_NAME NUMBA_CPU_FEATURES
mkdir -p "$work"

section() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

set_up() {
    section "Debian for ARM, and the packages"
    command -v debootstrap qemu-aarch64-static > /dev/null || {
        apt-get update -q && apt-get install -y -q qemu-user-static debootstrap
    }
    mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    [ -e $registered ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register
    [ -e "$root/usr/bin/python3" ] || debootstrap --arch=arm64 --variant=minbase --include=python3 bookworm "$root"
    # What train.py and the tests need, in versions for the Python of that Debian; nothing is built.
    "$python" - > "$folder/requirements.txt" << 'END'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
tests = [each for each in project["optional-dependencies"]["test"] if not each.startswith(("ruff", "mypy"))]
print("\n".join(project["dependencies"] + tests))
END
    if ! cmp -s "$folder/requirements.txt" "$root/opt/packages/requirements.txt"; then
        rm -rf "$root/opt/packages"
        "$python" -m pip install --quiet --target "$root/opt/packages" --only-binary=:all: --python-version 3.11 \
            --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 \
            --platform manylinux2014_aarch64 -r "$folder/requirements.txt"
        cp "$folder/requirements.txt" "$root/opt/packages"
    fi
    mkdir -p "$root/minigrad" "$root/work"
    # The emulator shows the /proc/cpuinfo of the host; LLVM reads the processor's name and features there.
    for number in 0 1; do
        printf '%s\t: %s\n' processor $number BogoMIPS 50.00 \
            Features "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp" \
            "CPU implementer" 0x41 "CPU architecture" 8 "CPU variant" 0x3 "CPU part" 0xd0c "CPU revision" 1
        echo
    done > "$folder/cpuinfo"
}

# on_arm COMMAND...: run it in that Debian, in the source folder, with /work for what it writes.
on_arm() {
    # shellcheck disable=SC2016  # the inner shell expands it
    root=$root source=$source work=$work cpuinfo=$folder/cpuinfo unshare --mount bash -c '
        mount -t proc proc "$root/proc" && mount --bind "$cpuinfo" "$root/proc/cpuinfo" && mount --bind /dev "$root/dev"
        mount --bind "$source" "$root/minigrad" && mount --bind "$work" "$root/work"
        exec nice -n 15 chroot "$root" /usr/bin/env -i -C /minigrad PATH=/usr/bin:/bin HOME=/work LANG=C.UTF-8 \
            QEMU_CPU=neoverse-n1 PYTHONPATH=/opt/packages PYTHONDONTWRITEBYTECODE=1 MINIGRAD_CACHE=/work/cache \
            HYPOTHESIS_STORAGE_DIRECTORY=/work/hypothesis CI=true "$@"' on_arm "$@"
}

python_on_arm() { on_arm python3 "$@"; }
python_on_x86() { MINIGRAD_CACHE=$folder/x86-cache PYTHONDONTWRITEBYTECODE=1 nice -n 15 "$python" "$@"; }
python_on_avx2() {
    NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=+avx,+avx2,+fma OPENBLAS_CORETYPE=Haswell python_on_x86 "$@"
}

imports() {
    section "imports, and what is chosen"
    python_on_arm -c '
import platform, models, tokenizer, train
from minigrad.kernels.gemm import backend
from minigrad.system import hardware
print(f"{hardware.describe()}; {backend.describe_arithmetic()}")
assert platform.machine() == "aarch64" and "Neoverse N1" in hardware.describe()
assert backend.FLOAT32.lanes == 4, "not the registers of NEON"
'
}

tests() {
    section "gradients, generated code, threads, and each kernel beside its twin"
    python_on_arm -m pytest -q -n 0 -p no:cacheprovider tests/autograd/test_gradcheck.py tests/kernels/codegen \
        tests/kernels/test_threads.py tests/kernels/test_threads_tasks.py
    python_on_arm -m pytest -q -n 0 -p no:cacheprovider tests/kernels/test_twins.py -k "equals_its_twin and float32"
}

settings=(--model vidya-v2 --size nano --vocab 1024 --batch 8 --context 128 --threads 1 --save-every 2 --eval-every 6)
settings+=(--sample-every 6 --log-every 1)

# train x86|avx2|arm NAME FLAGS...: make a run from the text of the project's own pages, unless it is there.
train() {
    local place=$work
    [ "$1" != arm ] || place=/work
    [ -e "$work/text.txt" ] || cat README.md docs/*.md > "$work/text.txt"
    [ ! -e "$work/$2/report.html" ] || return 0
    rm -rf "${work:?}/$2"
    "python_on_$1" train.py --data "$place/text.txt" "${settings[@]}" "${@:3}" --out "$place/$2"
}

steps() {
    section "a step and three of them, compared with x86; and x86 with its narrower registers"
    local within run
    # AdamW moves a weight by a part of its learning rate, however small the gradient is: see tests/stress/apart.py.
    for within in sgd-3:1e-4 adamw-1:6e-3 adamw-3:2e-2 muon-3:2e-2; do
        run=${within%:*}
        for system in x86 avx2 arm; do
            train "$system" "$system-$run" --optimizer "${run%-*}" --steps "${run#*-}"
        done
        for system in avx2 arm; do
            python_on_x86 tests/stress/apart.py "$work/x86-$run" "$work/$system-$run" --weights-within "${within#*:}"
        done
    done
}

generate() {
    section "the same text from the same weights"
    train x86 x86-sgd-3 --optimizer sgd --steps 3
    local flags=(--prompt "The list type" --tokens 20 --temperature 0)
    python_on_x86 generate.py "$work/x86-sgd-3" "${flags[@]}" > "$work/x86.txt"
    python_on_arm generate.py /work/x86-sgd-3 "${flags[@]}" | tee "$work/arm.txt"
    cmp "$work/x86.txt" "$work/arm.txt"
}

resume() {
    section "killed and resumed: the same weights as a run that never stopped"
    train arm arm-whole --steps 6 --dropout 0.1
    rm -rf "$work/arm-killed"
    train arm arm-killed --steps 6 --dropout 0.1 > "$work/killed.log" 2>&1 &
    until [ -d "$work/arm-killed/checkpoints/2" ]; do
        kill -0 $! 2> /dev/null || { cat "$work/killed.log"; exit 1; }
        sleep 0.1
    done
    kill -KILL "$(cut -d ' ' -f 1 "$work/arm-killed/.lock")"  # the number of the process that writes
    wait $! || true
    [ ! -e "$work/arm-killed/report.html" ]
    python_on_arm train.py --resume /work/arm-killed
    cmp "$work/arm-whole/model.safetensors" "$work/arm-killed/model.safetensors"
}

set_up
for name in "${sections[@]}"; do "$name"; done
section "done"
