"""Which declarations a source is given of those that it names."""

from __future__ import annotations

import pytest

from autoq.kernel.declarations import Declarations

HEADERS = """\
# 0 "<built-in>"
#define __FLT_MAX__ 3.4e38F
# 1 "./cuda_runtime.h" 1
#define __device__ __attribute__((device))
#define limit (floor_of + 1)
#define gone 1
#undef gone
#pragma nv_diag_suppress 1444
typedef struct __attribute__((aligned(8))) pair_of { int x, y; } pair;
enum mode { up, down };
static const int floor_of = 3;
extern "C" {
extern __attribute__((device)) __attribute__((nothrow (1))) int low(int x) noexcept(true);
extern __attribute__((device)) float other(float x);
}
namespace std { typedef unsigned long size_t; }
template <typename T> static __inline__ T least(T a, T b) { return a < b ? a : b; }
static __inline__ int least(int a, int b) { if (a < b) { return low(a); } return b; }
static __inline__ float least(float a, float b) { return other("};("[0] + a); }
extern const pair threadIdx;
"""


@pytest.fixture(scope="module")
def declarations() -> Declarations:
    return Declarations(HEADERS)


def test_nothing_is_needed_by_a_source_that_names_nothing(declarations: Declarations) -> None:
    assert declarations.needed("int y = 1;").strip() == ""


def test_all_overloads_come_with_what_they_call_in_their_order(declarations: Declarations) -> None:
    found = declarations.needed("least(1, 2)")
    places = [found.index(text) for text in ("int low", "float other", "template <", "least(int")]
    assert places == sorted(places)
    assert found.count("least(") == 3
    assert found.count('extern "C" {') == 2
    assert found.count("{") == found.count("}") + '"};("'.count("{") - '"};("'.count("}")
    assert "pair" not in found


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("pair p;", ["pair_of { int x, y; } pair;"]),
        ("struct pair_of p;", ["pair_of { int x, y; } pair;"]),
        ("threadIdx.x", ["extern const pair threadIdx;", "int x, y; } pair;"]),
        ("f(down)", ["enum mode { up, down };"]),
        ("limit", ["#define limit", "floor_of = 3;"]),
        ("__device__ f();", ["#define __device__ __attribute__((device))"]),
        ("std::size_t n;", ["namespace std {typedef unsigned long size_t;}"]),
        ("low(1)", ['extern "C" {extern __attribute__((device)) __attribute__((nothrow (1))) int']),
    ],
)
def test_a_name_brings_its_declaration(
    declarations: Declarations, source: str, needed: list[str]
) -> None:
    found = declarations.needed(source)
    assert all(text in found for text in needed)


@pytest.mark.parametrize("name", ["gone", "__FLT_MAX__", "nothrow", "device", "x"])
def test_no_macro_that_is_gone_or_the_compilers_own(declarations: Declarations, name: str) -> None:
    assert declarations.needed(name).strip() == ""


def test_what_a_source_defines_itself_is_not_needed(declarations: Declarations) -> None:
    assert (
        declarations.needed("  # define low(x) floor_of").strip()
        == "static const int floor_of = 3;"
    )
    assert "int low" in declarations.needed("#define low(x) 1\nlow(2)")
