// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/metrics_handler.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/quality.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace gyre::http {
namespace {

using detail::equals_ignoring_case;
using detail::take_until;
using detail::trim;

std::string accept_of(const request& request) {
  std::string accept_value;
  for (const field& field : request.fields()) {
    if (!equals_ignoring_case(field.name, "Accept")) continue;
    if (!accept_value.empty()) accept_value += ',';
    accept_value += field.value;
  }
  return accept_value;
}

}  // namespace

metrics::exposition_format choose_exposition_format(std::string_view accept_field) noexcept {
  unsigned open_metrics = 0, plain_text = 0;  // the qualities of both formats in thousandths
  while (!accept_field.empty()) {
    std::string_view parameters = take_until(accept_field, ',');
    const std::string_view type = trim(take_until(parameters, ';'));
    unsigned quality = 1000;
    bool is_known_version = true;
    while (!parameters.empty()) {
      std::string_view value = take_until(parameters, ';');
      const std::string_view name = trim(take_until(value, '='));
      value = trim(value);
      if (equals_ignoring_case(name, "q")) quality = detail::parse_quality(value).value_or(0);
      if (equals_ignoring_case(name, "version")) is_known_version = value == "1.0.0";
    }
    if (equals_ignoring_case(type, "application/openmetrics-text") && is_known_version) {
      open_metrics = std::max(open_metrics, quality);
    } else if (equals_ignoring_case(type, "text/plain")) {
      plain_text = std::max(plain_text, quality);
    }
  }
  return open_metrics != 0 && open_metrics >= plain_text ? metrics::exposition_format::open_metrics
                                                         : metrics::exposition_format::text;
}

handler metrics_handler(const metrics::registry& source, duration limit) {
  return [&source, limit](request& request) -> task<response> {
    task<metrics::exposition> collect_task =
        source.collect(choose_exposition_format(accept_of(request)), limit);
    const metrics::exposition samples = co_await std::move(collect_task);
    response page(status::ok, samples.content_type(), samples.text());
    page.set("Vary", "Accept").set("Cache-Control", "no-store");
    co_return page;
  };
}

}  // namespace gyre::http
