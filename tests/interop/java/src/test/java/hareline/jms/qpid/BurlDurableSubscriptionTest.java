package hareline.jms.qpid;

/** {@link DurableSubscriptionCases} with destinations in BURL syntax. */
class BurlDurableSubscriptionTest extends DurableSubscriptionCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
