// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/dump.hpp>

#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/json_report.hpp>
#include <gyre/trace/detail/snapshot.hpp>
#include <gyre/trace/detail/text_report.hpp>

namespace gyre::trace {

std::string dump_text(const dump_options& options) {
  detail::function_names names;
  return detail::report_as_text(detail::snapshot::take(options.last), options.slow, names);
}

std::string dump_json(const dump_options& options) {
  detail::function_names names;
  return detail::report_as_json(detail::snapshot::take(options.last), names);
}

}  // namespace gyre::trace
