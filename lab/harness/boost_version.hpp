// SPDX-License-Identifier: Apache-2.0
// The version of Boost a contender was compiled with, for its result line.
#pragma once

#include <boost/version.hpp>

#include <string>
#include <utility>

namespace lab {

inline std::pair<std::string, std::string> boost_version() {
  return {"boost", std::to_string(BOOST_VERSION / 100'000) + "." +
                       std::to_string(BOOST_VERSION / 100 % 1000) + "." +
                       std::to_string(BOOST_VERSION % 100)};
}

}  // namespace lab
