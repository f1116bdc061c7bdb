// SPDX-License-Identifier: Apache-2.0
// The options of the build on which headers depend. This file holds their defaults, for builds from
// the source tree, where CMake defines the options for the library and its users. `cmake --install`
// replaces this file by one with the values of the installed library, so that no user can choose
// others.
#pragma once

// Whether coroutines record the place at which they are suspended (async_backtrace.hpp). The value
// is a part of the layout of promises.
#ifndef GYRE_ASYNC_BACKTRACE
#define GYRE_ASYNC_BACKTRACE 0
#endif
