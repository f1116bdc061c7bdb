// SPDX-License-Identifier: Apache-2.0
// The version of gyre: of the headers as macros, of the library that runs as a function.
//
//     #if GYRE_VERSION < 100  // 0.1.0
//     #error "this program needs gyre 0.1"
//     #endif
//     const std::string_view installed = gyre::library_version();  // "0.1.0"
//
// docs/versions.md says which changes a version may bring.
#pragma once

#include <string_view>

/// The version of the headers; CMake and the packages read it from here.
#define GYRE_VERSION_MAJOR 0
#define GYRE_VERSION_MINOR 1
#define GYRE_VERSION_PATCH 0
#define GYRE_VERSION_STRING "0.1.0"
/// A number that grows with each version: 10203 is 1.2.3.
#define GYRE_VERSION (GYRE_VERSION_MAJOR * 10000 + GYRE_VERSION_MINOR * 100 + GYRE_VERSION_PATCH)

namespace gyre {

/// Returns the version of the library, such as "0.1.0". Where a shared library was updated after
/// the program was compiled, it is newer than GYRE_VERSION_STRING.
///
/// Thread-safety: any thread.
[[nodiscard]] std::string_view library_version() noexcept;

}  // namespace gyre
