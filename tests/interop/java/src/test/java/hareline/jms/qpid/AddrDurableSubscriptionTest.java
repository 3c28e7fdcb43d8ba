package hareline.jms.qpid;

/** {@link DurableSubscriptionCases} with destinations in ADDR syntax. */
class AddrDurableSubscriptionTest extends DurableSubscriptionCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
