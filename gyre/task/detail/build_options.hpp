// SPDX-License-Identifier: Apache-2.0
// Options of the build on which headers depend. This file holds their defaults, for builds from the
// source tree, where CMake defines them for the library and its users. `cmake --install` writes the
// values of the installed library in its place, so that no user can choose others.
#pragma once

// Whether suspended coroutines know where they are (async_backtrace.hpp). Part of the layout of
// promises.
#ifndef GYRE_ASYNC_BACKTRACE
#define GYRE_ASYNC_BACKTRACE 0
#endif
