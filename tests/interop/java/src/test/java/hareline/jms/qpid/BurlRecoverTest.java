package hareline.jms.qpid;

/** {@link RecoverCases} with destinations in BURL syntax. */
class BurlRecoverTest extends RecoverCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
