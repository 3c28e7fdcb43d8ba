package hareline.jms.qpid;

/** {@link AcknowledgeCases} with destinations in BURL syntax. */
class BurlAcknowledgeTest extends AcknowledgeCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
