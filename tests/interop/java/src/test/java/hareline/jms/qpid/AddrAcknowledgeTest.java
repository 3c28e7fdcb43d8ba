package hareline.jms.qpid;

/** {@link AcknowledgeCases} with destinations in ADDR syntax. */
class AddrAcknowledgeTest extends AcknowledgeCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
