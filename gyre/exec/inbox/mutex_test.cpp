// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/mutex.hpp>

#include <gyre/exec/inbox/inbox_stress_test_suite.hpp>
#include <gyre/exec/inbox/inbox_test_suite.hpp>

namespace gyre::inbox::suite {

using mutex_inboxes = ::testing::Types<mutex>;
INSTANTIATE_TYPED_TEST_SUITE_P(mutex, InboxSuite, mutex_inboxes);
INSTANTIATE_TYPED_TEST_SUITE_P(mutex, InboxStressSuite, mutex_inboxes);

static_assert(mutex::order == ordering::total);

}  // namespace gyre::inbox::suite
