// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/moodycamel.hpp>

#include <gyre/exec/inbox/inbox_stress_test_suite.hpp>
#include <gyre/exec/inbox/inbox_test_suite.hpp>

// The queue identifies a thread by the address of one of its thread-locals, so a thread that gets
// the stack of an ended thread continues with that thread's producer. glibc's reuse of the stack
// orders the two threads, which ThreadSanitizer does not see.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:concurrentqueue/concurrentqueue.h\n";  // inlined functions have no full names here
}

namespace gyre::inbox::suite {

using moodycamel_inboxes = ::testing::Types<moodycamel>;
INSTANTIATE_TYPED_TEST_SUITE_P(moodycamel, InboxSuite, moodycamel_inboxes);
INSTANTIATE_TYPED_TEST_SUITE_P(moodycamel, InboxStressSuite, moodycamel_inboxes);

static_assert(moodycamel::order == ordering::per_producer);

}  // namespace gyre::inbox::suite
