// SPDX-License-Identifier: Apache-2.0
// gyre::detail::execution: a namespace with the names of std::execution or of NVIDIA's stdexec.
#pragma once

#include <version>

#if __has_include(<stdexec/execution.hpp>)
#include <stdexec/execution.hpp>
#elif defined(__cpp_lib_senders)
#include <execution>
#include <stop_token>
#else
#error \
    "gyre/task/adapter/stdexec.hpp needs senders: a standard library with std::execution, or NVIDIA's stdexec in the include path"
#endif

namespace gyre::detail {

/// The names of the implementation of senders that was found.
namespace execution {
#if __has_include(<stdexec/execution.hpp>)
using namespace ::stdexec;
#else
using namespace ::std::execution;
using std::get_stop_token;
using std::get_stop_token_t;
using std::stop_callback_for_t;
using std::stop_token_of_t;
using std::unstoppable_token;
using operation_state_t = operation_state_tag;
using receiver_t = receiver_tag;
using scheduler_t = scheduler_tag;
using sender_t = sender_tag;
#endif
}  // namespace execution

}  // namespace gyre::detail
