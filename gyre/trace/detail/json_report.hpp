// SPDX-License-Identifier: Apache-2.0
// json_report: writes a snapshot in the Trace Event Format of Chrome.
#pragma once

#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/snapshot.hpp>

#include <string>

namespace gyre::trace::detail {

/// Returns the JSON of dump_json().
std::string report_as_json(const snapshot& records, function_names& names);

}  // namespace gyre::trace::detail
