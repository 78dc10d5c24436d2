import { Screen } from '../../components/Screen'

export default function Login() {
  return (
    <Screen title="Log in">
      <p className="hb-muted">Log in with a token.</p>
    </Screen>
  )
}
