// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/version.hpp>

#include <string_view>

namespace gyre {

std::string_view library_version() noexcept { return GYRE_VERSION_STRING; }

}  // namespace gyre
