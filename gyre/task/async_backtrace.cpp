// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/async_backtrace.hpp>

#include <ostream>

namespace gyre {
namespace detail {

void append_frame(std::string& text, const std::source_location& frame, std::string_view indent) {
  text.append(indent).append("  at ").append(frame.function_name());
  text.append(" (").append(frame.file_name()).append(":");
  text.append(std::to_string(frame.line())).append(")\n");
}

}  // namespace detail

async_backtrace::async_backtrace([[maybe_unused]] const task_context& from) {
#if GYRE_ASYNC_BACKTRACE
  const detail::promise_base* frame = from.innermost;
  for (const task_context* context = &from; context != nullptr; context = context->parent) {
    for (; frame != nullptr; frame = frame->awaited_by) {
      const bool has_begun = frame->where.line() != 0;
      if (has_begun) frames_.push_back(frame->where);
    }
    if (name_.empty() && context->name != nullptr) name_ = context->name;
    frame = context->awaited_by;
  }
#endif
}

std::string async_backtrace::to_string() const {
  std::string text;
  for (const std::source_location& frame : frames_) detail::append_frame(text, frame, "");
  return text;
}

std::ostream& operator<<(std::ostream& out, const async_backtrace& trace) {
  return out << trace.to_string();
}

}  // namespace gyre
